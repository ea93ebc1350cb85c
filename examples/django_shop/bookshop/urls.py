from django.urls import path

from bookshop import views

urlpatterns = [path("orders/", views.place), path("receipts/<str:id_>/", views.receipt)]
